//! The images on which a worker starts: those that are there from the start, and those that are built again because they were evicted.

use crate::crash_images::RecordedCase;
use crate::error::FuzzError;
use crate::image::{ImageId, ImageOrigin, StartImage};

use super::{UntriedCase, Worker};

impl Worker<'_> {
    /// The images that do not come from an input.
    pub(super) fn roots(&mut self) -> Result<Vec<(ImageId, StartImage)>, FuzzError> {
        let user = self.user_image()?;
        let mut roots = vec![(ImageOrigin::Absent, StartImage::default())];
        if !user.files.is_empty() {
            roots.insert(0, (ImageOrigin::User, user));
        }
        let mut shared = self.campaign.lock();
        let added = roots.into_iter().map(|(origin, image)| {
            let (id, _) = shared.images.add(origin, &image)?;
            Ok((id, image))
        });
        added.collect()
    }

    /// What is at the paths of the persistent files.
    fn user_image(&self) -> Result<StartImage, FuzzError> {
        StartImage::read(&self.files).map_err(|source| FuzzError::Read {
            path: self.files.first().cloned().unwrap_or_default(),
            source,
        })
    }

    /// The seeds on the files of the user, if one of these has become known only now. They are to be tried.
    pub(super) fn seeds_on_user_files(&self) -> Result<Vec<UntriedCase>, FuzzError> {
        let user = self.user_image()?;
        if user.files.is_empty() {
            return Ok(Vec::new());
        }
        let (image, is_new) = self.campaign.lock().images.add(ImageOrigin::User, &user)?;
        let seeds = self.campaign.seeds().into_iter().filter(|_| is_new);
        Ok(seeds
            .map(|seed| UntriedCase::seed(seed, image, user.clone()))
            .collect())
    }

    /// The content of an image; `None` if it was evicted and cannot be built again.
    pub(crate) fn image(&mut self, id: ImageId) -> Result<Option<StartImage>, FuzzError> {
        let (content, origin) = {
            let mut shared = self.campaign.lock();
            (shared.images.take(id)?, shared.images.origin(id).cloned())
        };
        match (content, origin) {
            (Some(content), _) => Ok(Some(content)),
            (None, Some(origin)) => self.rebuild(id, &origin),
            (None, None) => Ok(None),
        }
    }

    /// Builds an image again that was evicted, by running the test case that it comes from.
    fn rebuild(
        &mut self,
        id: ImageId,
        origin: &ImageOrigin,
    ) -> Result<Option<StartImage>, FuzzError> {
        let (ImageOrigin::Left { parent, case } | ImageOrigin::Crash { parent, case, .. }) = origin
        else {
            return Ok(None);
        };
        let input = self.campaign.input(*case);
        let Some((input, parent)) = input.zip(self.image(*parent)?) else {
            return Ok(None);
        };
        // Only an image that it comes from may have been evicted.
        if let Some(image) = self.campaign.lock().images.image(id)? {
            return Ok(Some(image));
        }
        let image = match origin {
            ImageOrigin::Crash { event, .. } => {
                let trace = tempfile::NamedTempFile::new_in(&self.campaign.options.out);
                let trace = trace.map_err(|source| FuzzError::Write {
                    path: self.campaign.options.out.clone(),
                    source,
                })?;
                let recorded = self.executor.record(&parent, &input, trace.path());
                if self.survive(recorded)?.is_none() {
                    return Ok(None);
                }
                let recorded = RecordedCase {
                    trace: trace.path(),
                    files: &self.files,
                    patterns: self.campaign.options.patterns.as_ref(),
                };
                let image = recorded.crash_image_at(*event);
                match self.survive(image)? {
                    Some(image) => image,
                    None => return Ok(None),
                }
            }
            _ => {
                if self.execute(&parent, &input)?.is_none() {
                    return Ok(None);
                }
                StartImage::new(self.executor.files()?)
            }
        };
        if image.id() != id {
            // The target is not the same in each execution.
            return Ok(None);
        }
        self.campaign.lock().images.put_back(id, &image)?;
        Ok(Some(image))
    }
}
